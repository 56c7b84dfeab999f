"""Schema changes: each job walks through the F1 states, one transaction a step.

requests -> submit -> queue -> manager -> worker: decide -> apply -> commit -> wait -> next step
                                             |
                                 actions: each a table of steps
"""
