"""Reads of this package beside those of other clients.

::

    python -m foreread.bench            # all rows, with the clients that there are
    python -m foreread.bench backward strided --clients foreread,s3fs --seconds 10
    python -m foreread.bench pyarrow-column --repeat 3   # the fastest of three runs of each
    sudo python -m foreread.bench arrays      # larger than memory, beside swap and np.memmap
    python -m foreread.bench --warm     # what is in memory, through another process and without
    python -m foreread.bench --takeover 8     # how long readers wait when the server is killed
    python -m foreread.bench --loader         # epochs of PyTorch's DataLoader with 8 workers

Each row runs with each client in a process of its own, in turn, against the same testbed: 30 ms to
the first byte, 80 MB/s a connection. A row of reads ends with its object or after `--seconds`. It
says the rate, the bytes fetched for each byte asked for, requests, the greatest resident size of
the process, and how many times as fast foreread was. The `foreread` command must be on the path,
or named by FOREREAD_BIN. Rows of arrays need root, for memory cgroups and a swap file.

`row.py` is what a row is, `store.py` the testbed, `clients.py` how each library reads.
`reads.py`, `tasks.py`, `tables.py`, `formats.py`, `arrays.py` and `start.py` have the rows of one
subject each; `warm.py`, `takeover.py` and `loader.py` what has an option of its own.
"""
