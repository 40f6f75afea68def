"""Code shared by the trainings: recipes, devices, checkpoints, the export of models, parts of model cards."""
