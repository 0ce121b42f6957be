"""The methods of events: one module for each way of delivery."""
