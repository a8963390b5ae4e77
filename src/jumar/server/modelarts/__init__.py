"""The API of ModelArts: /v2 as its SDK speaks it, /v1 as its older one does."""
