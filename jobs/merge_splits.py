"""spark-submit jobs/merge_splits.py --table T: executors merge small splits into large ones, the driver commits the replacement."""

from indextables.startup import exit_on_interrupt, exit_process

if __name__ == "__main__":
    exit_on_interrupt()  # before the next import, which takes a while
    from indextables.spark.jobs import main

    exit_process(main("merge_splits"))
