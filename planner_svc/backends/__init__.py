"""Planner backends: each turns a request with candidates and demos into a draft of a plan."""
