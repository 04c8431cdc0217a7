"""What a report of the parity kit says of a check."""


def failed(report):
    return {each.check for each in report.failed}


def said(report, check):
    return " ".join(each.message for each in report.failed if each.check == check)
