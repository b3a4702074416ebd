"""How much memory may be used, and refusing what needs more before it is taken."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gramless.base.errors import InputError

VARIABLE = "GRAMLESS_MEMORY_LIMIT"
"""Environment variable: bytes that large arrays may take together, such as 4e9."""
_SHARE = 0.5
_UNKNOWN = 4 << 30
_NO_LIMIT = 2**63
_OWN_GROUPS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_SPACE, _DATA = 0, 5
"""Where ``/proc/self/statm`` has the pages of the address space, and those of data and stack."""


def memory_budget() -> int:
    """Return how many bytes large arrays may take together: half of :func:`free_memory`.

    The environment variable ``GRAMLESS_MEMORY_LIMIT``, a number of bytes, takes its place;
    ``InputError`` is raised if that is not a number above 0.
    """
    given = os.environ.get(VARIABLE)
    return _given(given) if given else int(_SHARE * free_memory())


def free_memory() -> int:
    """Return how many bytes can be taken without swapping, at least 1.

    This is the least of what the system says is available, what the control group of the process
    leaves (as in a container), and what its limits on address space and data leave (``ulimit -v``,
    ``ulimit -d``).
    """
    try:
        free = _available()
    except (OSError, StopIteration, ValueError):
        free = _pages()
    return max(min([free, *_limits_leave()]), 1)


def check_memory(what: str, needed: float, remedy: str) -> None:
    """Raise ``InputError`` if more bytes are needed than :func:`memory_budget` allows.

    The message starts with ``what`` needs the memory, such as ``"Nystrom: 10 landmarks"``, and ends
    with a remedy, such as ``"lower n_components"``.
    """
    budget = memory_budget()
    if needed > budget:
        raise InputError(
            f"{what} would need {_told(needed)} of memory, and {_told(budget)} may be used: "
            f"{remedy}, or set the environment variable {VARIABLE} to the bytes that may be used."
        )


def _told(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.3g} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.3g} MB"


def _given(text: str) -> int:
    try:
        budget = int(float(text))
    except (ValueError, OverflowError):
        budget = 0
    if budget < 1:
        raise InputError(
            f"The environment variable {VARIABLE} must be a number of bytes above 0, such as 4e9; "
            f"got {text!r}."
        )
    return budget


def _available() -> int:
    """Return what Linux says can be used without swapping."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])


def _pages() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN


def _limits_leave() -> list[int]:
    """Return what each limit of this process leaves; nothing where none is set, or none known."""
    left = _process_limits_leave()
    for group in _limited_groups():
        with suppress(OSError, ValueError):
            left.append(group.leaves())
    return left


@dataclass(frozen=True)
class _Group:
    """A control group that may limit the memory of its processes: what its files are called."""

    folder: Path
    limit: str = "memory.max"
    used: str = "memory.current"
    cached: str = "inactive_file"

    def bytes_of(self, name: str) -> int:
        """Return the number in a file, 2**63 where it says that there is no limit."""
        text = (self.folder / name).read_text(encoding="ascii").strip()
        return _NO_LIMIT if text == "max" else int(text)

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        try:
            return self.bytes_of(self.limit) < _NO_LIMIT // 2
        except (OSError, ValueError):
            return False

    def leaves(self) -> int:
        """Return the limit less what is used; files in the cache can be dropped."""
        lines = (self.folder / "memory.stat").read_text(encoding="ascii").split("\n")
        cached = sum(int(line.split()[1]) for line in lines if line.startswith(self.cached + " "))
        return max(self.bytes_of(self.limit) - self.bytes_of(self.used) + cached, 0)


_FIRST_VERSION = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@cache
def _limited_groups() -> list[_Group]:
    """Return the control groups of this process that limit its memory, of either version."""
    groups = []
    with suppress(OSError):
        for line in _OWN_GROUPS.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            inside = Path(path.lstrip("/"))
            folders = (inside, *inside.parents)
            if controllers == "":
                groups += [_Group(_GROUPS / part) for part in folders]
            if controllers == "memory":
                groups += [_Group(_GROUPS / "memory" / part, *_FIRST_VERSION) for part in folders]
    return [group for group in groups if group.limits]


def _process_limits_leave() -> list[int]:
    """Return what the limits of address space and of data leave, where they are set."""
    try:
        import resource
    except ImportError:
        return []
    left = []
    for limit, place in ((resource.RLIMIT_AS, _SPACE), (resource.RLIMIT_DATA, _DATA)):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            left.append(max(most - _own_bytes(place), 0))
    return left


def _own_bytes(place: int) -> int:
    """Return a size of this process from Linux, 0 where that is not known."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[place]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
