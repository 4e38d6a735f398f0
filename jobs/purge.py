"""spark-submit jobs/purge.py --table T: deletes removed splits and old log files that are past their retention."""

from indextables.startup import exit_on_interrupt, exit_process

if __name__ == "__main__":
    exit_on_interrupt()  # before the next import, which takes a while
    from indextables.spark.jobs import main

    exit_process(main("purge"))
