"""The version of this program, as commits record it."""

__version__ = "0.1.0"
ENGINE = f"indextables-python/{__version__}"
