"""The `indextables` command; `python -m indextables` is the same."""

from indextables.startup import exit_on_interrupt, exit_process


def main() -> None:
    """Runs the command with the arguments of this process, and exits with its code."""
    exit_on_interrupt()
    from indextables.cli.main import main as run

    exit_process(run())


if __name__ == "__main__":
    main()
