"""A local Airflow for `make demo` and `make up`: its settings, its processes, and the demo.

Not part of the wheel: only a checkout of the project needs it.
"""
