import cProfile,pstats,time,sys
sys.path.insert(0,'.')
from milepost import *
from milepost.testing import databases as d, crash_everywhere
from milepost.testing.crash import everywhere as e
from milepost import db, migrate
import collections
T=collections.Counter(); N=collections.Counter()
def timed(cls,name):
    f=getattr(cls,name)
    def g(*a,**k):
        t=time.perf_counter()
        try: return f(*a,**k)
        finally: T[name]+=time.perf_counter()-t; N[name]+=1
    setattr(cls,name,g)
for n in ("restore","recover","snapshot"): timed(e.Stage,n)
timed(e,"run_forked")
with d.embedded_databases() as s:
    name=s.create_database("test_x")
    with db.connect(s.url(name)) as c: migrate.migrate(c); c.execute("create table bills (id serial primary key, number int, total int)")
    mp=Milepost(s.url(name))
    @mp.processor("billing")
    def bill(messages, tx):
        for m in messages: tx.execute("insert into bills (number,total) values (%s,%s)",[m.data["o"],1])
    print(crash_everywhere(bill,[Message("A",{"o":1}),Message("A",{"o":2})]))
    for k in T: print(k,N[k],"%.1f ms"%(T[k]/N[k]*1e3))
