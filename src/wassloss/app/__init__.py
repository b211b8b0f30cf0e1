"""The application around the library: tables, models on disk, comparisons, reports, commands.

It imports public names of the library only, and the library never imports it.
"""
