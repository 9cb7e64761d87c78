"""Small programs with Spark over a lake: each is run as `python -m examples.spark.NAME FOLDER`."""
