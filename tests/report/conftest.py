"""The pictures of the sample page, which several tests look at and are drawn once."""

import pytest

from albert.report.charts import draw_chart
from tests.report.samples import PAGE


@pytest.fixture(scope="session")
def pictures() -> dict[str, str]:
    return {chart.name: draw_chart(chart) for chart in PAGE.charts}
