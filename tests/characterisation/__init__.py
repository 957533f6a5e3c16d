"""Characterisation: what the package computes in many settings, recorded, and compared after every change inside it.

`settings` lists the settings, `outputs` says what is recorded of each, `decisions` hands a recorded search to a fit,
`store` is the file of records, and `python -m tests.characterisation.record` writes it.
"""
