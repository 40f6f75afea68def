"""Training, export and measuring of the models the retriever serves; needs the ``train`` requirements."""
