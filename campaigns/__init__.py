"""Randomised stress tests of the library, with seeded and counted cases.

A campaign is a module of this package with

``PROMISE``
    A sentence that states what must hold in every case.
``FULL``, ``SHORT``
    Number of cases of a full campaign, and of the short one that `.ci/run` runs.
``SECONDS``, ``MEMORY``
    Limits of one case: seconds, and bytes of memory in addition to those used before it.
``ENVIRONMENTS``
    Named sets of environment variables for the worker processes; cases use them in turn.
``check(number, seed)``
    Run one case and return its outcome in a few words, such as "refused" or "identical";
    outcomes are counted. An exception means that the promise is broken.

A case depends only on its number and the seed, so that it can be repeated:
``python -m campaigns model_files --case 17 --seed 0``.
"""
