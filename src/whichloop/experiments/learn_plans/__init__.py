"""Plans for tasks that have none, learned from trials that solved them."""
