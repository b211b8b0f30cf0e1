"""Mutation testing: make small changes to the library that some test should catch."""
