"""The served backend: a language model behind any OpenAI-compatible server drafts plans (TPTU-v2, section 3.3)."""
