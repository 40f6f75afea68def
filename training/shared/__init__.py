"""What the trainings have in common: recipes, devices, checkpoints, the export of models, pieces of their cards."""
