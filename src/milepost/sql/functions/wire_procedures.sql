-- Procedures run with the privileges of the owner, for those to whom an activity grants them. Nobody
-- else may call them: PostgreSQL lets everybody execute what is created.
revoke execute on all procedures in schema {schema} from public;
