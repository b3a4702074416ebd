"""What the installed command says where its packages are missing."""

from __future__ import annotations

import sys

import pytest

from gramless.cli.command import main


def test_missing_packages_are_named_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(SystemExit) as fault:
        main()
    assert str(fault.value) == (
        'error: the gramless command needs jinja2, not installed here: pip install "gramless[cli]".'
    )


def test_command_prints_its_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gramless", "--version"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("gramless ")
