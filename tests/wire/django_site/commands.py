"""Runs Django's commands, one after the other: python commands.py "migrate shop" "check"."""

import sys

import django
from django.core.management import call_command

django.setup()

if __name__ == "__main__":
    for words in sys.argv[1:]:
        call_command(*words.split(" "))
