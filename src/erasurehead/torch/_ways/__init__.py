"""Ways to meet: what ranks send each other, and what is made of it. Arithmetic on vectors, nothing else."""
