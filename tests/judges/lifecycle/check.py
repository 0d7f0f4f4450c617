"""check.py s3|gs|az <RULES: whether the storage's own SDK takes the rules of retention.

Of S3, botocore checks names, types and what is required by the model of the service. Of the others,
the rules are made by the SDK's own classes, which take no other names, and must come out the same.
Prints how many rules there are."""

import json
import sys


def s3(rules):
    import botocore.loaders
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    service = botocore.loaders.create_loader().load_service_model("s3", "service-2")
    shape = ServiceModel(service).operation_model("PutBucketLifecycleConfiguration").input_shape
    given = {"Bucket": "recordings", "LifecycleConfiguration": rules}
    report = ParamValidator().validate(given, shape)
    if report.has_errors():
        sys.exit(report.generate_report())
    # The model has text where the service takes one of two words.
    words = {rule["Status"] for rule in rules["Rules"]} - {"Enabled", "Disabled"}
    names = [rule["ID"] for rule in rules["Rules"]]
    if words or len(set(names)) != len(names):
        sys.exit(f"{words or names}")
    return rules["Rules"]


def gs(rules):
    from google.cloud.storage.bucket import LifecycleRuleDelete

    makers = {"age": "age", "matchesPrefix": "matches_prefix", "matchesSuffix": "matches_suffix"}
    made = [
        dict(LifecycleRuleDelete(**{makers[key]: of for key, of in rule["condition"].items()}))
        for rule in rules["rule"]
    ]
    same(rules, {"rule": made})
    return made


def az(rules):
    from azure.mgmt.storage import models as m

    def rule(of):
        actions = of["definition"]["actions"]
        days = actions["baseBlob"]["delete"]["daysAfterModificationGreaterThan"]
        filters = of["definition"]["filters"]
        delete = m.DateAfterModification(days_after_modification_greater_than=days)
        return m.ManagementPolicyRule(
            enabled=of["enabled"],
            name=of["name"],
            type=m.RuleType(of["type"]),
            definition=m.ManagementPolicyDefinition(
                actions=m.ManagementPolicyAction(
                    base_blob=m.ManagementPolicyBaseBlob(delete=delete)
                ),
                filters=m.ManagementPolicyFilter(
                    prefix_match=filters["prefixMatch"], blob_types=filters["blobTypes"]
                ),
            ),
        )

    made = m.ManagementPolicySchema(rules=[rule(of) for of in rules["rules"]])
    same(rules, made.as_dict())
    return rules["rules"]


def same(given, made):
    if given != made:
        sys.exit(f"given {json.dumps(given)}\nmade  {json.dumps(made)}")


storage = {"s3": s3, "gs": gs, "az": az}[sys.argv[1]]
print(len(storage(json.load(sys.stdin))))
