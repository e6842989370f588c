"""A seeded world in memory: whole nodes on simulated clocks, networks and disks, clients, faults, and a judge."""
