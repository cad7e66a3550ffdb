"""A linear map by oneDNN has the outputs and gradients of torch's, and hooks are called."""

import pytest
import torch
from torch import nn

from albert.model import linear
from albert.model.linear import apply_linear


@pytest.fixture(autouse=True)
def onednn(monkeypatch):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch was built without oneDNN")
    monkeypatch.setattr(linear, "prefers_onednn", lambda: True)


@pytest.mark.parametrize("has_bias", [True, False])
def test_outputs_and_gradients(has_bias):
    torch.manual_seed(0)
    module, x_TD = nn.Linear(24, 40, bias=has_bias), torch.randn(16, 24).t().contiguous().t().requires_grad_()
    found = []
    for compute in (module, lambda x: apply_linear(module, x)):
        module.zero_grad()
        x_TD.grad = None
        y_TF = compute(x_TD)
        (y_TF * torch.arange(40)).sum().backward()
        assert x_TD.grad is not None
        found.append([y_TF, x_TD.grad, *(parameter.grad for parameter in module.parameters())])
    assert "_Linear" in type(y_TF.grad_fn).__name__
    torch.testing.assert_close(found[1], found[0])


def test_hooks_are_called():
    module, calls = nn.Linear(4, 4), []
    module.register_forward_hook(lambda *_: calls.append(1))
    apply_linear(module, torch.ones(16, 4))
    assert calls == [1]
