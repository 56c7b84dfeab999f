"""Schema changes: a job, walked through the F1 states, one transaction a step.

requests -> submit -> queue -> manager -> worker: decide -> apply -> commit -> wait -> next step
                                             |
                                 actions: each a table of steps
"""
