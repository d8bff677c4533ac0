"""`python -m tfcompress`: the command line, for people who want to look at their own gradients."""

if __name__ == "__main__":
    try:
        from tfcompress.cli import main
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "rich":
            raise
        raise SystemExit("the command line needs rich: pip install 'tfcompress[cli]'") from error
    main()
