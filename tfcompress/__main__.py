"""`tfcompress` or `python -m tfcompress`: the command line, for people who look at their own gradients."""


def main() -> None:
    """Runs the command line.

    Raises:
      SystemExit: rich is missing; or with a status, as `tfcompress.cli.main`, after the message is printed.
    """
    try:
        from tfcompress.cli import console
        from tfcompress.cli import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "rich":
            raise
        raise SystemExit("the command line needs rich: pip install 'tfcompress[cli]'") from error
    try:
        run()
    except SystemExit as error:
        if not isinstance(error.code, str):
            raise
        console.print_error(error.code)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
