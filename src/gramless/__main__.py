"""The command line: ``python -m gramless`` is ``gramless``."""

from gramless.cli.main import app

if __name__ == "__main__":
    app(prog_name="gramless")
