"""Work that leaves a server's event loop: processes that share the loaded model, each with one job at a time.

    offload.py   what is short is answered on the loop, in turns; the rest becomes a job
    tasks.py     what a job is, in the process that does it
    pool.py      the jobs: a bounded queue, a deadline, what becomes of a process that ends
    line.py      who waits for a process, and who is next
    worker.py    a process's life
    nursery.py   where processes are forked from, again and again, though the server has threads
    frames.py    what goes between them

Only ``derender serve`` imports this package: a Lambda function answers one
request at a time and has nobody to keep waiting.
"""
