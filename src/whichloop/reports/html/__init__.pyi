from whichloop.reports.html.page import collection_html as collection_html
from whichloop.reports.html.page import doc_html as doc_html
from whichloop.reports.html.page import optimization_html as optimization_html
from whichloop.reports.html.page import report_html as report_html
