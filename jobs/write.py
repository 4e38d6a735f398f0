"""spark-submit jobs/write.py --table T --source S: executors turn the source's rows into splits, the driver commits them."""

from indextables.startup import exit_on_interrupt, exit_process

if __name__ == "__main__":
    exit_on_interrupt()  # before the next import, which takes a while
    from indextables.spark.jobs import main

    exit_process(main("write"))
