"""Write a model in the form of another runtime, and check that it still agrees with float32."""
