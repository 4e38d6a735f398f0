"""spark-submit jobs/health.py --table T: reports the findings and figures of a table. Changes nothing and does not start Spark."""

from indextables.startup import exit_on_interrupt, exit_process

if __name__ == "__main__":
    exit_on_interrupt()  # before the next import, which takes a while
    from indextables.spark.jobs import main

    exit_process(main("health"))
