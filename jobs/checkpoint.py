"""spark-submit jobs/checkpoint.py --table T: writes a checkpoint, in the driver alone."""

from indextables.startup import exit_on_interrupt, exit_process

if __name__ == "__main__":
    exit_on_interrupt()  # before the next import, which takes a while
    from indextables.spark.jobs import main

    exit_process(main("checkpoint"))
