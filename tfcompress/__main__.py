"""`tfcompress` or `python -m tfcompress`: the command line, for people who look at their own gradients."""


def main() -> None:
    """Runs the command line.

    Raises:
      SystemExit: rich is missing; or as `tfcompress.cli.main`.
    """
    try:
        from tfcompress.cli import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "rich":
            raise
        raise SystemExit("the command line needs rich: pip install 'tfcompress[cli]'") from error
    run()


if __name__ == "__main__":
    main()
