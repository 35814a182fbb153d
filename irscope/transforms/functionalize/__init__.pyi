from .functionalize_pass import functionalize as functionalize, why_in_place as why_in_place
