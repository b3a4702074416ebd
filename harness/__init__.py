"""Code shared by benchmarks, studies and campaigns.

``peers``
    Other methods to compare with, configured as their users would configure them.
``approximations``
    Error, time and memory of kernel approximations of increasing size.
``timing``
    A stopwatch with phases, and median times of functions that are called alternately.
``memory``
    The peak memory of this process.
``load``
    How busy other programs keep the machine during a measurement.
``process``
    Worker processes that answer requests line by line, with timeouts.
``data_sets``, ``known_sets``
    Known data sets with checksums, read from a folder or downloaded.
``synthetic``, ``waves``
    Generated tables: a fixed suite of varied ones, and smooth regression problems of any size.
``loops``
    Access from Python to compiled functions that only other compiled functions call.
``machine``
    The processor and the package versions, to be stored with measurements.
"""
