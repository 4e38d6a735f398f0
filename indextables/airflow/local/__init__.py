"""A local Airflow for `make demo` and `make up`. Not part of the wheel: only a checkout of the project needs it.

Start with `demo`, which runs the DAGs on generated logs, or with `server`, which starts and stops Airflow. `settings` isolates both from
the user's own Airflow.
"""
