"""What a provider owes: subclass `ProviderContract` in your tests and give it a `Subject`."""
