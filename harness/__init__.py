"""What benchmarks, studies and campaigns share: peers, time, memory, processes, the machine.

``peers``
    Other methods beside ours, as their users would take them.
``timing``
    A clock of phases, medians of runs that take turns, and a settled machine between two of them.
``memory``
    The memory that a process takes at its peak.
``process``
    A process of its own for a job: started, listened to, ended when it takes too long.
``data_sets``
    Known data sets with checksums: from a folder, or downloaded.
``waves``
    A made-up regression problem of any size.
``machine``
    The processor and the versions of packages that a number was measured with.
"""
