"""The language model's training: conversations made of recorded and made-up requests, and the finetuner."""
