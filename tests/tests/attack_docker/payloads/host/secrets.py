# Prints the secret of every live sandbox of a home in each way it could be written down.
import base64, json, os, sqlite3, sys
database = sqlite3.connect(os.path.join(sys.argv[1], 'coracle.db'))
for (document,) in database.execute("select document from sandboxes where state = 'ready'"):
    numbers = json.loads(document)['secret']
    secret = bytes(numbers)
    print(secret.hex())
    print(base64.b64encode(secret).decode())
    print(','.join(map(str, numbers)))
