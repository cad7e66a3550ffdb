"""The pictures of the sample page, which several tests look at and are drawn once."""

import pytest

from albert.pages.charts import draw_chart
from tests.pages.samples import PAGE


@pytest.fixture(scope="session")
def pictures() -> dict[str, str]:
    return {chart.name: draw_chart(chart) for chart in PAGE.charts}
