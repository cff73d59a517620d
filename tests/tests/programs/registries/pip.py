# An index for pip with every wheel of a directory.
import os, shutil, sys

for wheel in os.listdir(sys.argv[1]):
    name = wheel.split('-')[0].lower().replace('_', '-')
    os.makedirs(f'index/{name}')
    shutil.copy(f'{sys.argv[1]}/{wheel}', f'index/{name}/{wheel}')
    open(f'index/{name}/index.html', 'w').write(f'<!DOCTYPE html><html><body><a href="{wheel}">{wheel}</a></body></html>')
