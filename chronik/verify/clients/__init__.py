"""The clients that a run can be done with, behind one small protocol. Each is imported only when it is used."""
