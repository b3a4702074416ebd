"""Attacks on the library that go on until they are stopped: seeded, counted, each in its own file.

A campaign is a module of this package with

``PROMISE``
    One sentence: what must hold in every case.
``FULL``, ``SHORT``
    Numbers of cases: of a whole campaign, and of the short one that `.ci/run` runs.
``SECONDS``, ``MEMORY``
    Limits of one case: seconds, and bytes of memory beyond what the process held before it.
``ENVIRONMENTS``
    Environment variables of the worker processes, by name; cases take turns among them.
``check(number, seed)``
    Runs one case. Returns in a few words how it ended well, such as "refused" or "identical",
    which is what is counted; raises where the promise is broken.

A case depends on its number and the seed alone, so that any one can be run again:
``python -m campaigns model_files --case 17 --seed 0``.
"""
