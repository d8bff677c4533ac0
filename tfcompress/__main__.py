"""`tfcompress` or `python -m tfcompress`: the command line, for people who look at their own gradients."""


def main() -> None:
    """Runs the command line.

    Raises:
      SystemExit: rich is missing; or as `tfcompress.cli.run_program`.
    """
    try:
        from tfcompress.cli import run_program
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "rich":
            raise
        raise SystemExit("the command line needs rich: pip install 'tfcompress[cli]'") from error
    run_program()


if __name__ == "__main__":
    main()
